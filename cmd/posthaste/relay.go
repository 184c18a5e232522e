package main

import (
	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"posthaste.dev/posthaste/cmd/posthaste/internal/settings"
)

func newRelay() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "relay",
		Short: "Ship events until told to stop",
		Long: `Ship events from the outbox table to Kafka until told to stop.

The first SIGINT or SIGTERM stops reading, lets what is in flight finish within the drain timeout and exits with 0;
a second one ends at once.

` + settings.SecretHelp() + `
` + exitHelp,
		Example: `  KAFKA_BROKERS=kafka:9092 posthaste relay
  posthaste relay --order strict --http-addr :9188 --log-format json`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadSettings(cmd)
			if err != nil {
				return err
			}
			logger := newLogger(cmd.ErrOrStderr(), cfg.Log)
			cfg.Relay.Config.Logger = logger
			return runRelay(cmd.Context(), cfg, renewDatabase(cmd), logger)
		},
	}
	settings.AddFlags(cmd.Flags())
	return cmd
}

// renewDatabase reads how to reach PostgreSQL again, for a relay that has to connect anew: files of secrets may hold
// another password by then.
func renewDatabase(cmd *cobra.Command) func() (*pgx.ConnConfig, error) {
	return func() (*pgx.ConnConfig, error) {
		cfg, err := loadSettings(cmd, settings.GroupDatabase)
		if err != nil {
			return nil, err
		}
		return cfg.Database.Conn, nil
	}
}
