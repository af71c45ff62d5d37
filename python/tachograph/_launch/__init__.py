"""What `tachograph run` puts into the programs it starts.

The program is started as it would be without us, but with `site/` first on PYTHONPATH and one variable, TACHOGRAPH_RUN, that says
where and how to record. site/sitecustomize.py waits for torch; session.py records; steps.py finds the steps. Nothing of this is
loaded in a process that never imports torch."""
