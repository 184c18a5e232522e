package settings

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"
)

// Every setting can be given by every source, and each source comes before those below it.
func TestPrecedence(t *testing.T) {
	for _, s := range All() {
		from := Sources{
			Flags:   pflag.NewFlagSet("", pflag.ContinueOnError),
			Environ: map[string]string{s.Env: other[s.Env]},
			DotEnv:  map[string]string{s.Env: other[s.Env]},
			File:    fileOf(t, s),
		}
		AddFlags(from.Flags)
		want := []Origin{
			{FromEnvironment, ""}, {FromDotEnv, ""}, {FromFile, from.File.path + ":2"}, {FromDefault, s.elsewhere},
		}
		if s.Flag != "" {
			if err := from.Flags.Set(s.Flag, other[s.Env]); err != nil {
				t.Fatal(err)
			}
			want = append([]Origin{{FromFlag, "--" + s.Flag}}, want...)
		}
		value := explain(t, from, s.Env).Text()
		for _, origin := range want {
			e := explain(t, from, s.Env)
			if e.Origin != origin || (origin.Source != FromDefault && e.Text() != value) {
				t.Errorf("%s: got %v from %+v; want %v from %+v", s.Env, e.Text(), e.Origin, value, origin)
			}
			switch origin.Source {
			case FromFlag:
				from.Flags = nil
			case FromEnvironment:
				from.Environ = nil
			case FromDotEnv:
				from.DotEnv = nil
			case FromFile:
				from.File = nil
			}
		}
	}
}

// fileOf returns a file with another value of the setting in line 2, as it is written there most naturally.
func fileOf(t testing.TB, s Setting) *File {
	t.Helper()
	if err := s.value.parse(other[s.Env]); err != nil {
		t.Fatal(err)
	}
	value := s.value.get()
	if s.Secret {
		value = other[s.Env]
	}
	section, name, ok := strings.Cut(s.Key, ".")
	content := map[string]any{section: value}
	if ok {
		content = map[string]any{section: map[string]any{name: value}}
	}
	text, err := yaml.Dump(content)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		text = append([]byte("# line 1\n"), text...)
	}
	return file(t, string(text))
}

func explain(t testing.TB, from Sources, env string) Effective {
	t.Helper()
	all, _ := Explain(from)
	for _, e := range all {
		if e.Env == env {
			return e
		}
	}
	t.Fatalf("no setting %s", env)
	return Effective{}
}

func TestEmptyIsNotSet(t *testing.T) {
	c, err := Load(Sources{
		Environ: map[string]string{"POSTHASTE_RELAY_LEASE": "", "POSTHASTE_HTTP_ADDR": "", "KAFKA_BROKERS": "b1:9092"},
		DotEnv: map[string]string{"POSTHASTE_RELAY_LEASE": "7s", "POSTHASTE_HTTP_ADDR": ":1",
			"AWS_SECRET": "of others"},
		File: file(t, "kafka: {username: ''}\n"),
	})
	if err != nil || c.Relay.Config.Lease != 7*time.Second || c.HTTP.Addr != "" {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestEveryWrongValueInOneError(t *testing.T) {
	found := wrong(t, "OUTBOX_RELAY_INTERVAL_SECONDS=0", "OUTBOX_RELAY_BATCH_SIZE=1e3", "POSTHASTE_RELAY_BATCH_MAX=-1",
		"POSTHASTE_RELAY_CLAIM=Lanes",
		"POSTHASTE_RELAY_SETTLE_SYNC=true", "POSTHASTE_RELAY_LANES=48", "POSTHASTE_RELAY_LEASE=5",
		"POSTHASTE_RELAY_MEMORY=16MiB",
		"POSTHASTE_HTTP_ADDR=9188", "POSTHASTE_LOG_LEVEL=verbose", "POSTHASTE_TABLE=a-b", "KAFKA_BROKERS=b1",
		"POSTHASTE_RELAY_DRAIN_TIMEOUT=1h",
		"DATABASE_URL=mysql://x", "POSTHASTE_KAFKA_SASL=plain", "POSTHASTE_KAFKA_CA_FILE=x")
	for name, want := range map[string]string{
		"OUTBOX_RELAY_INTERVAL_SECONDS": "above 0", "OUTBOX_RELAY_BATCH_SIZE": "whole number",
		"POSTHASTE_RELAY_BATCH_MAX": "above 0",
		"POSTHASTE_RELAY_CLAIM":     "want lanes or skip-locked", "POSTHASTE_RELAY_SETTLE_SYNC": "want on or off",
		"POSTHASTE_RELAY_LANES": "power of two",
		"POSTHASTE_RELAY_LEASE": "with its unit", "POSTHASTE_RELAY_MEMORY": "whole number",
		"POSTHASTE_HTTP_ADDR": "has no port",
		"POSTHASTE_LOG_LEVEL": "want debug, info, warn or error", "POSTHASTE_TABLE": "needs double quotes",
		"KAFKA_BROKERS":                 `piece "b1" has no port`,
		"POSTHASTE_RELAY_DRAIN_TIMEOUT": "10m", "DATABASE_URL": "postgres://", "POSTHASTE_KAFKA_USERNAME": "needs it",
		"POSTHASTE_KAFKA_PASSWORD": "needs one", "POSTHASTE_KAFKA_TLS": "want on",
	} {
		if p, ok := found[name]; !ok || !strings.Contains(p.Want, want) {
			t.Errorf("%s: %q; want %q in it", name, p.Want, want)
		}
		delete(found, name)
	}
	if len(found) > 0 {
		t.Errorf("too much: %v", found)
	}
	p := wrong(t, "POSTHASTE_RELAY_LEASE=1h")["POSTHASTE_RELAY_LEASE"]
	if p.Error() != "POSTHASTE_RELAY_LEASE=1h0m0s: want 2s to 5m" {
		t.Errorf("out of range: %v", p)
	}
	if found := wrong(t, "OUTBOX_RELAY_BATCH_SIZE=500", "POSTHASTE_RELAY_BATCH_MAX=50"); len(found) != 1 {
		t.Errorf("a batch above its maximum: %v", found)
	}
}

// Several relays on one machine let the system choose their ports. Of brokers no such port can be meant.
func TestPortZeroIsForListeningOnly(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", ":0", "[::1]:0"} {
		c, err := Load(Sources{Environ: map[string]string{"POSTHASTE_HTTP_ADDR": addr}}, GroupHTTP)
		if err != nil || c.HTTP.Addr != addr {
			t.Errorf("%q: %v", addr, err)
		}
	}
	for env, value := range map[string]string{"POSTHASTE_HTTP_ADDR": "a b:0", "KAFKA_BROKERS": "b1:0"} {
		if _, err := Load(Sources{Environ: map[string]string{env: value}}, GroupHTTP, GroupKafka); err == nil ||
			!strings.Contains(err.Error(), env) {
			t.Errorf("%s=%q: %v", env, value, err)
		}
	}
}
