"""The record store on AWS: one DynamoDB table."""
