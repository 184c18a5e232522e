package postgres

import (
	"time"

	"posthaste.dev/posthaste/relay"
)

// SetAsideIdle says after which time of not being used the second connection of a session is closed.
func SetAsideIdle(s relay.Session, idle time.Duration) { s.(*session).aside.idle = idle }
