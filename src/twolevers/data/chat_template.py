"""The prompt styles as Jinja chat templates, for programs that take an exported model.

A template gives what `serving.messages` makes of the same messages, to the letter, and refuses what
that refuses with the same words. transformers, vLLM and llama.cpp render it. It says all that it
writes in expressions, so that no setting about white space between blocks changes it, and keeps to
what each of their Jinja dialects has.

`add_generation_prompt` changes nothing: the mark that an answer follows ends the user's turn, and
whoever leaves the option out, as is transformers' default, still asks what was trained.
"""

from __future__ import annotations

import json

from twolevers.data.prompt import ALPACA_PREAMBLE, find_style

_MARKS = {
    "alpaca": {
        "preamble": ALPACA_PREAMBLE,
        "system": "",
        "user": "### Instruction:\n",
        "assistant": "### Response:\n",
        "before_input": "\n\n### Input:\n",
        "end": "\n\n",
    },
    "phi3": {
        "preamble": "",
        "system": "<|system|>\n",
        "user": "<|user|>\n",
        "assistant": "<|assistant|>:\n",
        "before_input": "\n",
        "end": "\n",
    },
}
"""What stands before a turn of each role and before an input, and behind every turn; `preamble`
is said where there is no system message."""

# llama.cpp hands over the parts of a message only where a template looks into what may be a list:
# by `content[0]`. Else it joins them itself, and the input would become part of the instruction.
_CHAT = """\
{%- if tools -%}
    {{- raise_exception('tools: is not supported here; say [], or leave it out') -}}
{%- endif -%}
{%- if not messages -%}
    {{- raise_exception('messages: list should have at least 1 item after validation, not 0') -}}
{%- endif -%}
{%- set chat = namespace(system='', turns='', role='', instruction='', input='') -%}
{%- for message in messages -%}
    {%- set place = 'messages.' ~ loop.index0 -%}
    {%- if message.role not in ['system', 'developer', 'user', 'assistant'] -%}
        {{- raise_exception(
            place ~ ".role: input should be 'system', 'developer', 'user' or 'assistant'"
        ) -}}
    {%- endif -%}
    {%- set role = 'system' if message.role == 'developer' else message.role -%}
    {%- set is_last = loop.last -%}
    {%- set said = namespace(text='', instruction='', input='') -%}
    {%- set content = message.content or '' -%}
    {%- if content[0] is mapping -%}
        {%- for part in content -%}
            {%- if part.type != 'text' -%}
                {{- raise_exception(
                    place ~ ".content: input should be a valid string or input should be 'text'"
                ) -}}
            {%- endif -%}
            {%- set said.text = said.text ~ ('' if loop.first else '\\n') ~ part.text -%}
            {%- if not part.text | trim -%}
            {%- elif not said.instruction -%}
                {%- set said.instruction = part.text -%}
            {%- else -%}
                {%- set said.input = said.input ~ ('\\n\\n' if said.input else '') ~ part.text -%}
            {%- endif -%}
        {%- endfor -%}
    {%- elif content is string -%}
        {%- set said.text = content -%}
        {%- set said.instruction = content -%}
    {%- else -%}
        {{- raise_exception(
            place ~ '.content: input should be a valid string or input should be a valid list'
        ) -}}
    {%- endif -%}
    {%- if is_last -%}
        {%- set chat.role = message.role -%}
        {%- set chat.instruction = said.instruction -%}
        {%- set chat.input = said.input -%}
    {%- elif not said.text | trim -%}
    {%- elif role == 'system' -%}
        {%- set chat.system = chat.system ~ ('\\n\\n' if chat.system else '') ~ said.text -%}
    {%- elif role == chat.role -%}
        {%- set chat.turns = chat.turns ~ '\\n\\n' ~ said.text -%}
    {%- else -%}
        {%- set before = marks.end if chat.turns else '' -%}
        {%- set chat.turns = chat.turns ~ before ~ marks[role] ~ said.text -%}
        {%- set chat.role = role -%}
    {%- endif -%}
{%- endfor -%}
{%- if chat.role != 'user' -%}
    {{- raise_exception(
        "messages: role of the last '" ~ chat.role ~ "': nothing to answer; end with a user"
    ) -}}
{%- endif -%}
{%- if not chat.instruction | trim -%}
    {{- raise_exception('messages: the last: is empty; say what to do') -}}
{%- endif -%}
{%- set system = chat.system or marks.preamble -%}
{{- marks.system ~ system ~ marks.end if system else '' -}}
{{- chat.turns ~ marks.end if chat.turns else '' -}}
{{- marks.user ~ chat.instruction -}}
{{- marks.before_input ~ chat.input if chat.input else '' -}}
{{- marks.end ~ marks.assistant -}}
"""


def chat_template(prompt_style: str) -> str:
    """The chat template of a prompt style.

    Raises:
        InputError: there is no such style.
    """
    marks = json.dumps(_MARKS[find_style(prompt_style).name], indent=4)
    return f"{{%- set marks = {marks} -%}}\n{_CHAT}"
