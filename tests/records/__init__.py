"""Records and the batches they travel in: known answers, random content and other clients' codecs."""
