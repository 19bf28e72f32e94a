"""Large content: in a folder of this machine, or in S3, Google Cloud Storage or Azure Blob Storage."""
