"""The modules that HTA has under this name, as far as notebooks use them."""
