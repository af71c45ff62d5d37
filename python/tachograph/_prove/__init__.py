"""`tachograph prove`: what known delays cost, predicted from a recording and measured in the program."""
