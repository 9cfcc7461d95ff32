"""The app `tokens`: the credentials of programs that use the API."""

from weir.postgres import weir_apps


class TokensConfig(weir_apps.WeirApp):
    """Owns tokens, their admin page, and the command `tokens`."""

    name = "weir.api.tokens"
    label = "weir_tokens"
    verbose_name = "Weir: API tokens"
