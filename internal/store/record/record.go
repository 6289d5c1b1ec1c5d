// Package record converts between values of package fleet and rows of a database. It has the conversions that all
// stores share.
//
// The stores use it. It must not contain queries that depend on the database, because each database has its own SQL.
package record

import "strings"

// Scanner is a row of a result.
type Scanner interface{ Scan(dest ...any) error }

// Key returns the form in which names are compared. It is computed here and not by the database, because a database's
// lower-case function may depend on a locale or change only ASCII letters.
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
