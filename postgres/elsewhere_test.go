package postgres_test

import (
	"testing"

	"posthaste.dev/posthaste/internal/testenv"
	"posthaste.dev/posthaste/postgres"
)

// Schemas come and go while others are looked for, as those of tests do.
func TestSideSchemaDroppedWhileLooking(t *testing.T) {
	t.Parallel()
	b := newBed(t, testenv.Require(t, testenv.DatabaseURL))
	other := connect(t, b.config)
	dropped := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < 150 && err == nil; i++ {
			_, err = other.Exec(t.Context(), `
create schema passing;
create table passing.outbox (id int, name text, lock_class int);
create table passing.schema_version (); create table passing.member (); create table passing.lane ()`)
			if err == nil {
				_, err = other.Exec(t.Context(), `drop schema passing cascade`)
			}
		}
		dropped <- err
	}()
	for {
		if _, err := postgres.Migrate(t.Context(), b.admin, b.names, postgres.MigrateOptions{}); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-dropped:
			must(t, err)
			return
		default:
		}
	}
}
