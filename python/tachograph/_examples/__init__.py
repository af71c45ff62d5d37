"""Small programs to record and to learn from, each complete: `tachograph examples` lists and writes them."""
