"""Large studies: runs in slices, results, claims, figures and pages."""
