"""Prefect's pages as a user goes through them."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Locator, Page, Response, expect
from servers import Servers, wait_until

SECONDS = 1000  # Playwright counts in milliseconds
OVER = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}


def open_tab(page: Page, name: str) -> Locator:
    """A page's tab, by its name in small letters."""
    page.locator(f"#{name}").click()
    content = page.locator(f"#{name}-content")
    content.wait_for()
    return content


def click_until_heard(click: Callable[[], None], page: Page, url: str) -> Response:
    """What the server answers to a click; again where it says that it is too busy, as a user."""
    for _ in range(5):
        with page.expect_response(url) as answered:
            click()
        if answered.value.status != 503:
            break
    return answered.value


def follow(link: Locator) -> Page:
    """The page that a link opens, in a tab of its own."""
    with link.page.context.expect_page() as opened:
        link.click()
    return opened.value


class DeploymentPage:
    """A deployment, found in the list of deployments."""

    def __init__(self, page: Page, servers: Servers, name: str) -> None:
        self.page, self.servers = page, servers
        page.goto(f"{servers.prefect}/deployments")
        page.get_by_role("link", name=name, exact=True).first.click()
        page.wait_for_url("**/deployments/deployment/*")

    def open_form(self) -> RunForm:
        """Run, and there the run with parameters."""
        self.page.get_by_role("button", name="Run", exact=True).click()
        self.page.get_by_text("Custom run").click()
        self.page.wait_for_url("**/run?*")
        return RunForm(self.page)


class RunForm:
    """The form of a run."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def field(self, name: str) -> Locator:
        """A parameter, or an option in one of the boxes."""
        label = self.page.locator(f".schema-form-property__label:text-is('{name} (Optional)')")
        # The box that holds a field is one itself.
        return self.page.locator(".schema-form-property", has=label).last

    def options(self, name: str) -> list[str]:
        """The values of a drop-down, which stays open."""
        control = self.field(name).locator(".p-select-button__control")
        control.focus()
        control.press("ArrowDown")  # a click does not open it
        listed = self.page.locator(".p-select-option")
        listed.first.wait_for()
        return listed.all_inner_texts()

    def choose(self, name: str, value: str) -> None:
        """A value of a drop-down."""
        self.options(name)
        self.page.locator(".p-select-option").get_by_text(value, exact=True).click()
        expect(self.field(name).locator(".p-select-button__value")).to_have_text(value)

    def fill(self, **values: str | int) -> None:
        """Fields of text and numbers; one that is None by default is given its type first."""
        for name, value in values.items():
            self.field(name).wait_for()
            kind = self.field(name).get_by_role("button", name="str", exact=True)
            if kind.count():
                kind.click()
            box = self.field(name).locator("textarea, input")
            box.fill(str(value))
            expect(box).to_have_value(str(value))

    def write_json(self, name: str, text: str) -> None:
        """A field's value as JSON, whatever the form has to choose from."""
        self.field(name).locator(".schema-form-property-menu button").first.click()
        self.page.get_by_text("Use JSON input").click()
        self.field(name).locator("textarea").fill(text)

    def submit(self) -> None:
        """Press Submit."""
        self.page.get_by_role("button", name="Submit").click()

    def start(self, servers: Servers) -> RunPage:
        """Press Submit; the page of the run that starts."""
        answer = click_until_heard(self.submit, self.page, "**/create_flow_run")
        assert answer.status == 201, answer.text()
        return RunPage(self.page, servers, answer.json()["id"])


class RunPage:
    """A flow run."""

    def __init__(self, page: Page, servers: Servers, flow_run: str) -> None:
        self.page, self.servers, self.id = page, servers, flow_run

    def open(self) -> RunPage:
        """Go to it."""
        self.page.goto(f"{self.servers.prefect}/runs/flow-run/{self.id}")
        return self

    def wait_for(self, name: str) -> None:
        """Until the run is in that state; then the page says so."""

        def reached() -> bool:
            state = self.servers.read(f"/flow_runs/{self.id}")["state"]
            if state["name"] != name:
                assert state["type"] not in OVER, f"{state['name']}: {state['message']}"
            return bool(state["name"] == name)

        self.page.goto("about:blank")  # drawing the run's graph takes half a core from the run
        wait_until(f"flow run {self.id} {name}", reached, 600)
        self.open()
        badge = self.page.locator(".page-heading-flow-run .state-badge")
        expect(badge).to_have_text(name)

    def press(self, button: str, confirm: str) -> None:
        """A button of the run, and the one that confirms it; the run's state has changed then."""

        def click() -> None:
            self.open()
            self.page.get_by_role("button", name=button, exact=True).click()
            self.page.locator(".p-modal").get_by_role("button", name=confirm).click()

        answer = click_until_heard(click, self.page, f"**/flow_runs/{self.id}/set_state")
        assert answer.json()["status"] == "ACCEPT", answer.text()

    def tab(self, name: str) -> Locator:
        """One of its tabs, opened."""
        return open_tab(self.page, name)

    def open_artifact(self, key: str, of_a_stage: bool = False) -> Locator:
        """An artifact, chosen on the run's tab."""
        listed = self.open().tab("artifacts")
        if of_a_stage:  # they stand below the run's, and are drawn when they come into sight
            listed.get_by_text("Task runs", exact=True).scroll_into_view_if_needed()
        listed.locator(f".artifact-card__title:text-is('{key}')").click()
        self.page.wait_for_url("**/artifacts/artifact/*")
        expect(self.page.locator(".page-heading-artifact")).to_contain_text(key)
        return self.page.locator(".artifact .p-layout-well__content")
