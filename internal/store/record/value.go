package record

import (
	"encoding/json"
	"fmt"
	"time"
)

// Maybe returns the time as an argument, or NULL for the zero time. A store whose database has no type for times converts the
// time.Time among the arguments to microseconds since 1970.
func Maybe(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

// Time is where a row's time is scanned to, as a time or as microseconds since 1970. NULL is the zero time.
type Time time.Time

// Scan implements sql.Scanner.
func (t *Time) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*t = Time{}
	case int64:
		*t = Time(time.UnixMicro(v).UTC())
	case time.Time:
		*t = Time(v.UTC())
	default:
		return fmt.Errorf("a time is stored as %T", src)
	}
	return nil
}

// jsonInto is where a row's JSON is scanned to. NULL changes nothing.
type jsonInto struct{ to any }

// Scan implements sql.Scanner.
func (j jsonInto) Scan(src any) error {
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
