module posthaste.dev/posthaste/cmd

go 1.26.0
