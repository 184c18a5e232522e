package postgres_test

import (
	"slices"
	"testing"

	"posthaste.dev/posthaste/internal/testenv"
	"posthaste.dev/posthaste/postgres"
	"posthaste.dev/posthaste/relay"
)

// A database whose language has other ideas of upper case and of order: Turkish, by ICU. All that a relay does there is
// what it does elsewhere.
func TestLocaleOfTheDatabase(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{"15": testenv.DatabaseURL, "18": testenv.DatabaseURL18} {
		t.Run("PostgreSQL "+name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t, testenv.Require(t, key), "template template0 locale_provider icu icu_locale 'tr-TR'")
			n := names(t, `"INBOX_ıİ"`, `"Schema İ"`)
			up(t, d.admin, n, postgres.MigrateOptions{Headers: true, Lanes: 8})
			b := &bed{database: d, names: n}
			b.grant(t, false)
			b.store = b.newStore(t)
			exec(t, d.admin, insertEvents(n.Table.String(), "3"),
				"update "+n.Table.String()+" set topic = 'TITLE.I' where id = 2",
				"update "+n.Table.String()+" set topic = 'title.i' where id = 3")
			m := b.join(t)
			beat(t, m)
			act(t, m, nil, 8)
			s := b.open(t)
			all := read(t, s, func(*relay.Read) {})
			if !slices.Equal(ids(all), []int64{1, 2, 3}) {
				t.Fatalf("read %v", ids(all))
			}
			wanted := read(t, s, func(r *relay.Read) {
				r.Wanted = []relay.Choice{{{Match: "TITLE.*", Want: true}}}
			})
			if !slices.Equal(ids(wanted), []int64{2}) {
				t.Errorf("of the topics TITLE.* come the events %v, want 2", ids(wanted))
			}
			if r := exchange(t, s, relay.Exchange{Settle: refs(all)}); r.Settled != 3 {
				t.Errorf("settled %d, want 3", r.Settled)
			}
			must(t, m.Leave(t.Context()))
		})
	}
}
