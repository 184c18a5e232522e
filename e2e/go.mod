module posthaste.dev/posthaste/e2e

go 1.26.0
