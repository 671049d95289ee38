"""HTTP as a good citizen: named, patient, checked whole, and stored raw so that nothing is fetched twice."""
