"""System checks of the e-mail settings."""
