package settings

import (
	"slices"
	"strings"

	"posthaste.dev/posthaste/internal/pgname"
	"posthaste.dev/posthaste/postgres"
)

// check judges what concerns more than one setting, and fills the fields that are derived.
func (l *loader) check(c *Config, groups []Group) {
	has := func(g Group) bool { return len(groups) == 0 || slices.Contains(groups, g) }
	if has(GroupDatabase) {
		l.checkDatabase(&c.Database)
	}
	if has(GroupRelay) {
		c.Relay.Config = c.Relay.Config.WithDefaults()
		l.join(c.Relay.Config.Validate())
	}
	if has(GroupKafka) {
		l.checkKafka(&c.Kafka)
	}
}

// join takes over the findings of a package that names the variables itself, as NAME: WANT or NAME=VALUE: WANT.
func (l *loader) join(err error) {
	for _, e := range split(err) {
		name, want, _ := strings.Cut(e.Error(), ": ")
		name, value, _ := strings.Cut(name, "=")
		l.refuseSetting(name, value, want)
	}
}

func (l *loader) checkDatabase(d *Database) {
	conn, err := parseDatabase(d.URL)
	if err != nil && l.origin["DATABASE_URL"].Source != "" && d.URL == "" {
		err = nil // it was refused already
	}
	if err != nil {
		l.refuseSetting("DATABASE_URL", "", err.Error())
	}
	d.Conn = conn
	_, terr := pgname.ParseTable(d.Table)
	_, serr := pgname.ParseSchema(d.Schema)
	if terr != nil {
		l.refuseSetting("POSTHASTE_TABLE", "", terr.Error())
	}
	if serr != nil {
		l.refuseSetting("POSTHASTE_SCHEMA", "", serr.Error())
	}
	if d.Names, err = postgres.ParseNames(d.Table, d.Schema); err != nil && terr == nil && serr == nil {
		l.refuseSetting("POSTHASTE_TABLE", "", err.Error())
	}
	if names, err := d.Names.WithColumns(d.Columns); err == nil { // else the setting was refused
		d.Names = names
	}
}

func (l *loader) checkKafka(k *Kafka) {
	sasl := k.SASL != "none"
	if sasl && k.Username == "" {
		l.refuseSetting("POSTHASTE_KAFKA_USERNAME", "", "not set; POSTHASTE_KAFKA_SASL="+k.SASL+" needs it")
	}
	if sasl && k.Password == "" && l.origin["POSTHASTE_KAFKA_PASSWORD"] == (Origin{}) {
		l.refuseSetting("POSTHASTE_KAFKA_PASSWORD", "",
			"not set, nor is POSTHASTE_KAFKA_PASSWORD_FILE; POSTHASTE_KAFKA_SASL="+k.SASL+" needs one")
	}
	if !sasl && (k.Username != "" || k.Password != "") {
		l.refuseSetting("POSTHASTE_KAFKA_SASL", "none", "want a mechanism, since a user or password is given")
	}
	if k.CAFile != "" && !k.TLS {
		l.refuseSetting("POSTHASTE_KAFKA_TLS", "off", "want on, since POSTHASTE_KAFKA_CA_FILE is given")
	}
}
