package settings

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"posthaste.dev/posthaste/relay"
)

// other holds a valid value for each setting, other than its default.
var other = map[string]string{
	"DATABASE_URL": "postgres://u:p@db:1234/d", "POSTHASTE_TABLE": "a.b", "POSTHASTE_SCHEMA": "side",
	"POSTHASTE_COLUMNS":   "payload=body",
	"POSTHASTE_LOG_LEVEL": "debug", "POSTHASTE_LOG_FORMAT": "json",
	"OUTBOX_RELAY_INTERVAL_SECONDS": "0.25", "OUTBOX_RELAY_BATCH_SIZE": "10", "POSTHASTE_RELAY_BATCH_MAX": "100",
	"POSTHASTE_RELAY_CLAIM": "skip-locked", "POSTHASTE_RELAY_SETTLE": "delete", "POSTHASTE_RELAY_SETTLE_SYNC": "on",
	"POSTHASTE_RELAY_ORDER": "strict", "POSTHASTE_RELAY_LANES": "8", "POSTHASTE_RELAY_LEASE": "8s",
	"POSTHASTE_RELAY_DRAIN_TIMEOUT": "9s",
	"POSTHASTE_RELAY_CLAIM_TIMEOUT": "7s", "POSTHASTE_RELAY_SWEEP_INTERVAL": "1m", "POSTHASTE_RELAY_MEMORY": "2097152",
	"KAFKA_BROKERS": "b2:9092", "POSTHASTE_KAFKA_TLS": "on", "POSTHASTE_KAFKA_CA_FILE": "ca.pem",
	"POSTHASTE_KAFKA_SASL":     "plain",
	"POSTHASTE_KAFKA_USERNAME": "u", "POSTHASTE_KAFKA_PASSWORD": "p", "POSTHASTE_KAFKA_CLIENT_ID": "c",
	"POSTHASTE_HTTP_ADDR": "", "POSTHASTE_TOPICS": "a.*: interval=0.1; b: batch=5",
	"POSTHASTE_RELAY_ON_REFUSED": "skip", "POSTHASTE_RELAY_GROUP": "g",
}

// Every setting changes exactly one field, and every field belongs to a setting or is named here.
func TestNoFieldIsLost(t *testing.T) {
	elsewhere := []string{"Database.Conn", "Database.Names", "Relay.Config.BeatInterval", "Relay.Config.Logger"}
	owner := map[string]string{}
	base := flatten(defaults(t))
	for i, s := range All() {
		value, ok := other[s.Env]
		if !ok {
			t.Errorf("no value to try %s with", s.Env)
			continue
		}
		changed := defaults(t)
		if err := table(changed)[i].value.parse(value); err != nil {
			t.Errorf("%s=%s: %v", s.Env, value, err)
		}
		var fields []string
		for name, v := range flatten(changed) {
			if !reflect.DeepEqual(v, base[name]) {
				fields = append(fields, name)
			}
		}
		if len(fields) != 1 || owner[fields[0]] != "" {
			t.Errorf("%s changes %v", s.Env, fields)
			continue
		}
		owner[fields[0]] = s.Env
	}
	for name := range base {
		if owner[name] == "" && !slices.Contains(elsewhere, name) {
			t.Errorf("no setting fills %s", name)
		}
	}
}

func defaults(t testing.TB) *Config {
	t.Helper()
	c := &Config{}
	for _, s := range table(c) {
		if s.Default != "" {
			if err := s.value.parse(s.Default); err != nil {
				t.Fatalf("default of %s: %v", s.Env, err)
			}
		}
	}
	return c
}

func flatten(c *Config) map[string]any {
	fields := map[string]any{}
	var walk func(prefix string, v reflect.Value)
	walk = func(prefix string, v reflect.Value) {
		for i := range v.NumField() {
			name, f := prefix+v.Type().Field(i).Name, v.Field(i)
			if f.Kind() == reflect.Struct && name != "Database.Names" {
				walk(name+".", f)
			} else {
				fields[name] = f.Interface()
			}
		}
	}
	walk("", reflect.ValueOf(c).Elem())
	return fields
}

func TestNamesAreUniqueAndToldOf(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range All() {
		for _, name := range []string{s.Env, "--" + s.Flag, s.Key} {
			if seen[name] && name != "--" {
				t.Errorf("%s twice", name)
			}
			seen[name] = true
		}
		if s.Help == "" || s.Why == "" || s.Key == "" || s.value.form == "" || (s.Flag == "") != s.Secret ||
			(s.Default == "") != (s.Example != "") {
			t.Errorf("%s: incomplete: %+v", s.Env, s)
		}
		if strings.Contains(s.Help, "`") {
			t.Errorf("%s: backquotes in the help; the help of flags takes them for the name of the value", s.Env)
		}
		if fromKubernetes(s.Env, "tcp://10.0.0.1:80") || ofTests(s.Env) {
			t.Errorf("%s may come from Kubernetes or a test", s.Env)
		}
	}
}

func TestDefaultsAreTheRelays(t *testing.T) {
	c, err := load(t)
	if err != nil {
		t.Fatal(err)
	}
	if want := (relay.Config{}).WithDefaults(); !reflect.DeepEqual(c.Relay.Config, want) {
		t.Errorf("got  %+v\nwant %+v", c.Relay.Config, want)
	}
	if c.Database.Names.Table.String() != `"public"."outbox_event"` || c.Database.Names.Schema != "posthaste" ||
		c.HTTP.Addr != "127.0.0.1:9188" {
		t.Errorf("%+v", c)
	}
}

// The ranges that the reference tells of are those of package relay.
func TestRanges(t *testing.T) {
	given := regexp.MustCompile(` \(\d+\)`) // "OUTBOX_RELAY_BATCH_SIZE (50)"
	tried := 0
	for _, s := range All(GroupRelay) {
		if s.Range == "" {
			continue
		}
		tried++
		var wants []string
		for _, value := range []string{"1ns", "99h", "1", "0.0000001", "99999999999"} {
			if p, ok := wrong(t, s.Env+"="+value)[s.Env]; ok {
				wants = append(wants, given.ReplaceAllString(p.Want, ""))
			}
		}
		if !slices.Contains(wants, "want "+s.Range) {
			t.Errorf("%s: the range %q is none of %q", s.Env, s.Range, wants)
		}
	}
	if tried < 8 {
		t.Errorf("only %d settings have a range", tried)
	}
}
