"""Servers, builders and checks that tests share."""
