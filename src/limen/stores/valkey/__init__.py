"""Buckets in Valkey or Redis, shared by every gateway."""
