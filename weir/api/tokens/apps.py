"""The app `tokens`: what programs show to use the API."""

from weir.postgres import weir_apps


class TokensConfig(weir_apps.WeirApp):
    """Owns tokens, their admin page, and the command `tokens`."""

    name = "weir.api.tokens"
    label = "weir_tokens"
    verbose_name = "Weir: API tokens"
