package pgname

import (
	"strings"
	"testing"
)

func TestParseColumns(t *testing.T) {
	for text, want := range map[string]struct{ printed, eventID, created, sql string }{
		"":                                {"", "event_id", "created_at", "event_id"},
		"event_id=event_id":               {"", "event_id", "created_at", "event_id"},
		" event_id = UUID ,payload=b":     {`event_id="uuid",payload="b"`, "uuid", "created_at", `"uuid"`},
		`event_id="Ev,=""id",created_at=`: {`event_id="Ev,=""id",created_at=`, `Ev,="id`, "", `"Ev,=""id"`},
	} {
		c, err := ParseColumns(text)
		if err != nil || c.String() != want.printed || c.Name("event_id") != want.eventID ||
			c.Name("created_at") != want.created || c.Fill("{{event_id}}") != want.sql {
			t.Errorf("%s is read as %q, %v", text, c, err)
		}
		if again, err := ParseColumns(c.String()); err != nil || again.String() != c.String() {
			t.Errorf("%s does not survive being printed: %q, %v", text, again, err)
		}
	}
}

func TestParseColumnsRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"event_id":                  `"event_id" is no pair`,
		"event=uuid":                `no column "event"`,
		"event_id=a,event_id=b":     "event_id is given twice",
		"topic=":                    "no outbox can be without topic",
		"event_id=a.b":              "want one name",
		"event_id=a-b":              "needs double quotes",
		"payload=topic":             "column topic can't stand for both payload and topic",
		"event_id=x,published_at=x": "column x can't stand for both event_id and published_at",
	} {
		if c, err := ParseColumns(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v; want an error with %q", text, c, err, want)
		}
	}
	if _, err := ParseColumns("a=b,topic=,c"); err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("three mistakes are told as %v", err)
	}
}

func TestSharedColumns(t *testing.T) {
	c, err := ParseColumns("partition_key=aggregate_id,created_at=,headers=")
	if shared := c.Shared(); err != nil || len(shared) != 1 || shared["partition_key"] != "aggregate_id" {
		t.Errorf("%v, %v", shared, err)
	}
}
