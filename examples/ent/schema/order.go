// Package schema describes the entities; `go generate ./examples/ent` makes the package ent of them.
package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/schema/field"
)

// Order is a row of the table orders.
type Order struct{ ent.Schema }

// Fields of the Order.
func (Order) Fields() []ent.Field {
	return []ent.Field{
		field.String("id"),
		field.String("status").Default("new"),
		field.String("total"),
	}
}
