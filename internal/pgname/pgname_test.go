package pgname

import (
	"strings"
	"testing"
)

func TestParseTable(t *testing.T) {
	for in, want := range map[string]string{
		"outbox_event":                 `"public"."outbox_event"`,
		"Sales.Outbox":                 `"sales"."outbox"`,
		`"Sales"."outbox-event"`:       `"Sales"."outbox-event"`,
		`"a""b".c`:                     `"a""b"."c"`,
		`"with.dot".t`:                 `"with.dot"."t"`,
		`sales."outbox event"`:         `"sales"."outbox event"`,
		`заказы.события`:               `"заказы"."события"`,
		"s." + strings.Repeat("x", 63): `"s"."` + strings.Repeat("x", 63) + `"`,
	} {
		got, err := ParseTable(in)
		if err != nil || got.String() != want {
			t.Errorf("ParseTable(%q) = %s, %v; want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"", ".", "a.", ".b", "a.b.c", "outbox-event", `"open`, `"a"b`, `""`, "1a", "a b",
		"a;drop",
		strings.Repeat("x", 64), "\"a\x00b\""} {
		if got, err := ParseTable(in); err == nil {
			t.Errorf("ParseTable(%q) = %s, want an error", in, got)
		}
	}
}
