"""What record stores share: queries to SQL, records to rows, migrations, and the steps of a transaction."""
