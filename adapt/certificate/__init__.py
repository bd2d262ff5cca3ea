"""Label-preservation certificate: measured evidence that translated images still match their labels."""
