"""The relaxed mode: decisions are drawn before the right to append is held."""
