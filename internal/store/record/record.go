// Package record converts between the values of package fleet and the rows of a database, as far as all stores do that alike.
//
// The stores use it. It must not contain queries, because each database has its own SQL.
package record

import "strings"

// Scanner is a row of a result.
type Scanner interface{ Scan(dest ...any) error }

// Key returns the form in which names are compared. It does not depend on the database, whose lower-case form of a name may
// depend on a locale, or cover only ASCII.
func Key(name string) string { return strings.ToLower(name) }

// Marks returns a question mark for each column of the list.
func Marks(columns string) string { return "?" + strings.Repeat(", ?", strings.Count(columns, ",")) }

// Quoted returns the values as a list of SQL strings. They must not contain quotes.
func Quoted[T ~string](values []T) string {
	var b strings.Builder
	for i, v := range values {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("'" + string(v) + "'")
	}
	return b.String()
}
