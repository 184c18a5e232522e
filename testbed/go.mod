module posthaste.dev/posthaste/testbed

go 1.26.0
