"""Tricks inside compiled code: batching rules, random numbers, dead-code elimination, small linear algebra."""
