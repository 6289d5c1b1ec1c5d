// Package record contains the code that all stores share: the conversions between values of package fleet and rows of a
// database, and the reads and writes whose SQL is the same in every database.
//
// The stores embed ReadTx and Tx in their transactions. SQL that only one database understands belongs to that store, or to
// Dialect.
package record

import "strings"

// Scanner is a row of a result.
type Scanner interface{ Scan(dest ...any) error }

// NameKey returns the form in which names are compared, which is lower case. It is computed here and not by the database, because a database's
// lower-case function may depend on a locale or change only ASCII letters.
func NameKey(name string) string { return strings.ToLower(name) }

// Placeholders returns a question mark for each column of the list.
func Placeholders(columns string) string {
	return "?" + strings.Repeat(", ?", strings.Count(columns, ","))
}

// QuoteList returns the values as a list of SQL strings. They must not contain quotes.
func QuoteList[T ~string](values []T) string {
	var b strings.Builder
	for i, v := range values {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("'" + string(v) + "'")
	}
	return b.String()
}
