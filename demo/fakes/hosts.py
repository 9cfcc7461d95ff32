"""The addresses of the fake sites."""

LOOPBACK = "127.1"  # needs no set-up: all of 127.0.0.0/8 is this machine
MOST_HOSTS = 250 * 256


def host(index: int, network: str = LOOPBACK) -> str:
    """Return the address of site number `index`, counted from 0; `network` is the first two numbers of the address."""
    if not 0 <= index < MOST_HOSTS:
        raise ValueError(f"Sites are numbered from 0 to {MOST_HOSTS - 1}: there is no {index}.")
    return f"{network}.{index // 250}.{index % 250 + 1}"
