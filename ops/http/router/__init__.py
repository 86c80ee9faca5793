"""The router: model APIs as their own clients speak them, with what is remembered of the person in the prompt."""
