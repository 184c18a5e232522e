package settings

import (
	"regexp"
	"slices"
	"strings"
)

// What Kubernetes adds to the environment of every pod for a Service named posthaste or posthaste-...
// (https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables).
var (
	injected = regexp.MustCompile(`^POSTHASTE(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|` +
		`PORT_[0-9]+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR))$`)
	injectedURL = regexp.MustCompile(`^POSTHASTE(_[A-Z0-9_]+)?_PORT(_[0-9]+_(TCP|UDP|SCTP))?$`)
)

// fromKubernetes looks at the value where the name may be a person's mistake, as in POSTHASTE_HTTP_PORT=9188.
func fromKubernetes(name, value string) bool {
	return injected.MatchString(name) || injectedURL.MatchString(name) && strings.Contains(value, "://")
}

// ofTests are variables of the project's own tests.
func ofTests(name string) bool {
	return strings.HasPrefix(name, "POSTHASTE_TEST_") || strings.HasPrefix(name, "POSTHASTE_E2E_")
}

// knownVariables returns the names of all settings' variables.
func knownVariables() []string {
	known := []string{ConfigEnv}
	for _, s := range All() {
		known = append(known, s.Env)
		if s.Secret {
			known = append(known, s.Env+"_FILE")
		}
	}
	return known
}

// refuseUnknown looks at both places for names that begin like ours. A shared .env holds names of others; these pass.
func (l *loader) refuseUnknown() {
	known := knownVariables()
	for source, values := range map[string]map[string]string{"": l.from.Environ, FromDotEnv: l.from.DotEnv} {
		for name, value := range values {
			if strings.HasPrefix(name, "POSTHASTE_") && !slices.Contains(known, name) && !ofTests(name) &&
				!fromKubernetes(name, value) {
				l.refuse(Problem{Name: name, Source: source,
					Want: "no such setting; correct the name or remove it" + hint(name, known)})
			}
		}
	}
}
