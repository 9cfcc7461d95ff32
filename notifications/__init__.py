if not __name__.startswith("weir."):
    raise ImportError(f"This is weir.{__name__}: import it by that name. All of Weir is below `weir`.", name=__name__)
