"""`tachograph watch`: the figures of a program that runs already, drawn from outside of it."""
