"""Read, split, prompt, tokenise, batch, ledger."""
