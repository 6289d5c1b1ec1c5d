package record

import (
	"encoding/json"
	"fmt"
	"time"
)

// NullTime returns the time as an argument of a query, or nil, which means NULL, for the zero time. A store whose database
// has no type for times converts the time.Time arguments to microseconds since 1970.
func NullTime(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

// TimeColumn scans a time from a row. The database may return a time or microseconds since 1970. NULL gives the zero time.
type TimeColumn time.Time

// Scan implements sql.Scanner.
func (t *TimeColumn) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*t = TimeColumn{}
	case int64:
		*t = TimeColumn(time.UnixMicro(v).UTC())
	case time.Time:
		*t = TimeColumn(v.UTC())
	default:
		return fmt.Errorf("a time is stored as %T", src)
	}
	return nil
}

// jsonColumn scans JSON from a row into the value that to points to. NULL leaves the value unchanged.
type jsonColumn struct{ to any }

// Scan implements sql.Scanner.
func (j jsonColumn) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		return nil
	case []byte:
		return json.Unmarshal(v, j.to)
	case string:
		return json.Unmarshal([]byte(v), j.to)
	}
	return fmt.Errorf("JSON is stored as %T", src)
}

// nullText returns the text as an argument of a query, or nil, which means NULL, for the empty text.
func nullText(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// textColumn scans a text from a row. NULL gives the empty text.
type textColumn struct{ to *string }

// Scan implements sql.Scanner.
func (t textColumn) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*t.to = ""
	case string:
		*t.to = v
	case []byte:
		*t.to = string(v)
	default:
		return fmt.Errorf("a text is stored as %T", src)
	}
	return nil
}

// scanJSON returns the value of a row with one column of JSON.
func scanJSON[T any](row Scanner) (*T, error) {
	v := new(T)
	return v, row.Scan(jsonColumn{v})
}
