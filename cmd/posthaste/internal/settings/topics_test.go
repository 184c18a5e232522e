package settings

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"posthaste.dev/posthaste/relay"
)

// The two forms mean the same, and what is shown is the compact one.
func TestTopics(t *testing.T) {
	want := []relay.TopicRule{
		{Match: "order-service.audit"},
		{Match: "order-service.*", Interval: 100 * time.Millisecond},
		{Match: "analytics.*", Interval: 5 * time.Second, Batch: 500},
	}
	const compact = "order-service.audit; order-service.*: interval=0.1; analytics.*: interval=5 batch=500"
	const listed = `topics:
  - match: order-service.audit
  - match: order-service.*
    interval_seconds: 0.1
  - {match: analytics.*, interval_seconds: 5, batch_size: 500}
`
	for _, from := range []Sources{
		{Environ: map[string]string{"POSTHASTE_TOPICS": compact}},
		{DotEnv: dotEnv(t, "POSTHASTE_TOPICS="+compact)},
		{Environ: map[string]string{"POSTHASTE_TOPICS": " order-service.audit :;\n order-service.*:interval=0.1 ;\n" +
			"analytics.*:\tbatch=500  interval=5.0\n"}},
		{File: file(t, listed)},
		{File: file(t, "topics: '"+compact+"'")},
	} {
		c, err := Load(from, GroupRelay)
		if err != nil || !reflect.DeepEqual(c.Relay.Config.Topics, want) {
			t.Errorf("%+v: %v, %v", from, c, err)
		}
		if e := explain(t, from, "POSTHASTE_TOPICS"); e.Text() != compact {
			t.Errorf("shown as %s", e.Text())
		}
	}
}

func TestTopicsRefused(t *testing.T) {
	var list []string
	for i := range 32 {
		list = append(list, fmt.Sprintf("topic-%d", i))
	}
	tooMany := strings.Join(list, ";")
	for text, want := range map[string]string{
		"a;":                        "rule 2 is empty",
		"a;;b":                      "rule 2 is empty",
		": interval=1":              `rule "": a topic pattern can't be empty`,
		"a.*: 0.1":                  `rule 1 (a.*): "0.1" is not understood`,
		"a: interval=0.1, batch=5":  "rule 1 (a): interval=0.1,: want a number of seconds",
		"a: interval=1s":            "want a number of seconds",
		"a: interval":               "want a number of seconds",
		"a: interval=0":             "want a number of seconds above 0",
		"a: batch=0":                "want a whole number",
		"a: batch=2 batch=3":        `"batch=3" is not understood, or comes twice`,
		"a: order=strict":           `"order=strict" is not understood`,
		"a: interval=0.0001":        "interval 100µs: want 1ms to 1h",
		"a: batch=2001":             "1 to POSTHASTE_RELAY_BATCH_MAX (2000)",
		"a b: interval=1":           `rule "a b": topic pattern "a b": no topic has`,
		"a.*: interval=1; a.b.c":    `rule "a.b.c": it never counts, since the rule "a.*" before it`,
		"*; a":                      `rule "a": it never counts`,
		tooMany:                     "32 rules, want at most 31",
		"orders: interval=1: batch": "want a number of seconds",
	} {
		if p := wrong(t, "POSTHASTE_TOPICS="+text)["POSTHASTE_TOPICS"]; !strings.Contains(p.Want, want) {
			t.Errorf("%s: %q; want %q", text, p.Want, want)
		}
	}
	_, err := loadFile(t, "kafka: {brokers: b:1}\ntopics:\n  - match: a b\n  - match: c\n    batch_size: 3000\n")
	want := `read settings: POSTHASTE_TOPICS (f:2): rule "a b": topic pattern "a b": no topic has ' ' in its name; ` +
		`POSTHASTE_TOPICS (f:2): rule "c": batch 3000: want 1 to POSTHASTE_RELAY_BATCH_MAX (2000)`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
