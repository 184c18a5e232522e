//go:build unix

package demo

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"strings"

	"posthaste.dev/posthaste/cmd/posthaste/internal/settings"
	"posthaste.dev/posthaste/kafka"
)

// lanes is how many shards the keys are dealt out in: migrate's own number for a new outbox.
const lanes = 64

// environ is the environment for commands of ours: every setting is said outright, so that neither the user's own for
// another relay nor a file changes what the demo shows.
func (d *demo) environ() []string {
	env := slices.DeleteFunc(os.Environ(), func(pair string) bool {
		of := func(prefix string) bool { return strings.HasPrefix(pair, prefix) }
		ours := of("POSTHASTE_") || of("OUTBOX_") || of("KAFKA_") || of("DATABASE_URL")
		return ours || of("PG") && d.DatabaseURL == ""
	})
	return append(env, d.settings()...)
}

// settings says every setting of posthaste: the demo's own, and the defaults of all others.
func (d *demo) settings() []string {
	onOff := map[bool]string{true: "on", false: "off"}
	own := map[string]string{
		"DATABASE_URL":             d.url,
		"POSTHASTE_TABLE":          d.table,
		"POSTHASTE_SCHEMA":         d.side,
		"POSTHASTE_LOG_FORMAT":     "json",
		"POSTHASTE_HTTP_ADDR":      "127.0.0.1:0",
		"POSTHASTE_RELAY_LANES":    strconv.Itoa(lanes),
		"KAFKA_BROKERS":            strings.Join(d.cfg.Brokers, ","),
		"POSTHASTE_KAFKA_TLS":      onOff[d.cfg.TLS],
		"POSTHASTE_KAFKA_SASL":     cmp.Or(d.cfg.SASL, kafka.SASLNone),
		"POSTHASTE_KAFKA_CA_FILE":  d.cfg.CAFile,
		"POSTHASTE_KAFKA_USERNAME": d.cfg.Username,
		"POSTHASTE_KAFKA_PASSWORD": d.cfg.Password,
	}
	var env []string
	for _, s := range settings.All() {
		if value, ok := own[s.Env]; ok {
			env = append(env, s.Env+"="+value)
		} else if s.Default != "" {
			env = append(env, s.Env+"="+s.Default)
		}
	}
	return env
}
