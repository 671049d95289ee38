"""What an edit achieved: the study's Tables 3, 7 and 8 and Figure 3, out of verdicts."""
