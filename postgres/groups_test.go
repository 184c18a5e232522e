package postgres_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"posthaste.dev/posthaste/internal/testenv"
	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

func group(name string, topics ...relay.Pattern) postgres.TopicGroup {
	return postgres.TopicGroup{Name: name, Topics: topics}
}

func TestGroups(t *testing.T) {
	eachMajor(t, func(t *testing.T, url string) {
		b := newBed(t, url)
		set := func(g postgres.TopicGroup) error { return postgres.SetGroup(t.Context(), b.admin, b.names, g) }
		must(t, set(group("critical", "order-service.*", "payment-service.*")))
		must(t, set(postgres.TopicGroup{Name: "analytics", Topics: []relay.Pattern{"web.*"}, Lanes: 2}))
		must(t, set(group("analytics", "analytics_*"))) // other topics, the same lanes
		if err := set(group("third", "*.order.*")); !errors.Is(err, postgres.ErrGroup) {
			t.Errorf("topics of another group: %v, want ErrGroup", err)
		}
		for _, bad := range []postgres.TopicGroup{group(""), group("A", "x"), group("a", "b c"), group("a"), {Name: "a",
			Topics: []relay.Pattern{"x"}, Lanes: 3}} {
			if set(bad) == nil {
				t.Errorf("group %+v is accepted", bad)
			}
		}
		got, err := postgres.Groups(t.Context(), b.admin, b.names)
		must(t, err)
		want := []postgres.TopicGroup{{Topics: []relay.Pattern{}, Lanes: 8},
			{Name: "analytics", Topics: []relay.Pattern{"analytics_*"}, Lanes: 2},
			{Name: "critical", Topics: []relay.Pattern{"order-service.*", "payment-service.*"}, Lanes: 64}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("groups are %+v, want %+v", got, want)
		}

		// Every topic is wanted by exactly one group.
		wanted := map[string]relay.Choice{}
		var members []relay.Membership
		for _, name := range []string{"", "analytics", "critical"} {
			store := b.newStore(t, func(c *postgres.Config) { c.Names.Group = name })
			m, err := store.Join(t.Context())
			must(t, err)
			members = append(members, m)
			wanted[name] = beat(t, m).Wanted
		}
		for topic, owner := range map[string]string{"order-service.order.confirmed": "critical",
			"analytics_x": "analytics",
			"analytics.x": "", "other": ""} {
			for name, choice := range wanted {
				if choice.Wants(topic) != (name == owner) {
					t.Errorf("group %q wants topic %s: %v", name, topic, choice.Wants(topic))
				}
			}
		}
		if err := set(group("critical", "x")); !errors.Is(err, postgres.ErrMembers) {
			t.Errorf("change while relays run: %v, want ErrMembers", err)
		}
		for _, m := range members {
			must(t, m.Leave(t.Context()))
			m.Close()
		}
		must(t, postgres.RemoveGroup(t.Context(), b.admin, b.names, "critical"))
		if err := postgres.RemoveGroup(t.Context(), b.admin, b.names, "critical"); !errors.Is(err, postgres.ErrGroup) {
			t.Errorf("remove twice: %v, want ErrGroup", err)
		}
		_, err = b.newStore(t, func(c *postgres.Config) { c.Names.Group = "critical" }).Open(t.Context())
		if permanent := (*relay.Permanent)(nil); !errors.As(err, &permanent) || !errors.Is(err, postgres.ErrGroup) {
			t.Errorf("open for a group that is not there: %v, want a permanent ErrGroup", err)
		}
		s := b.open(t)
		if _, err := s.Claim(t.Context(), *everything()); !errors.Is(err, postgres.ErrGroup) {
			t.Errorf("claim beside a group: %v, want ErrGroup", err)
		}
		_, err = postgres.MigrateDown(t.Context(), b.admin, b.names, postgres.MigrateOptions{})
		must(t, err)
	})
}

// A read brings what its choices want, whatever signs the topics hold.
func TestReadWantsTopics(t *testing.T) {
	t.Parallel()
	b := newBed(t, testenv.Require(t, testenv.DatabaseURL))
	topics := []string{"a.b", "a_b", "aXb", `a\b`, "a%b", "c"}
	for _, topic := range topics {
		b.write(t, topic, "k")
	}
	s := b.open(t)
	for _, choices := range [][]relay.Choice{
		nil,
		{{{Match: "a_b", Want: true}}},
		{{{Match: "a.*", Want: false}, {Match: "a*", Want: true}}},
		{{{Match: "a*b", Want: true}}, {{Match: "aXb", Want: false}, {Match: "*", Want: true}}},
		{{{Match: "nothing", Want: true}}},
	} {
		var got, want []string
		for _, e := range read(t, s, func(r *relay.Read) { r.Wanted = choices }) {
			got = append(got, e.Topic)
		}
		for _, topic := range topics {
			if !slices.ContainsFunc(choices, func(c relay.Choice) bool { return !c.Wants(topic) }) {
				want = append(want, topic)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("wanting %v: read %q, want %q", choices, got, want)
		}
	}
}
