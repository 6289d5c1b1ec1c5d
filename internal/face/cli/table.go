package cli

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/mattn/go-runewidth"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// column is a column of a table of messages: its heading, and where its cells come from. That is the name of a field in the proto,
// with a dot after the name of a message that has the field; or a function of the message that returns a text, a number, a time, of
// which the age is shown, or another value that cellOf knows; or nil if the table leaves the column out.
type column struct {
	head string
	from any
}

// valueIf returns the value, or nil for a column of a table, or a line of a card, that is left out.
func valueIf(shown bool, value any) any {
	if !shown {
		return nil
	}
	return value
}

// list prints messages as a table. With -q it prints only the texts of the first column. For an empty list it prints a hint.
func list[M proto.Message](s *session, items []M, none string, columns ...column) {
	all := make([]proto.Message, len(items))
	for i, item := range items {
		all[i] = item
	}
	s.show(s.tableOf((*new(M)).ProtoReflect().Descriptor(), all, columns), none)
}

// tableOf returns a table of messages. It panics if a column names a field that the messages do not have, which is a bug.
func (s *session) tableOf(d protoreflect.MessageDescriptor, items []proto.Message, columns []column) *table {
	t := &table{rows: make([][]cell, len(items))}
	for _, c := range columns {
		if c.from == nil {
			continue
		}
		value := valueOf(d, c)
		t.head = append(t.head, c.head)
		for i, item := range items {
			t.rows[i] = append(t.rows[i], s.cellOf(value(item)))
		}
	}
	return t
}

// valueOf returns the function that returns the value of the column for a message.
func valueOf(d protoreflect.MessageDescriptor, c column) func(proto.Message) any {
	path, isField := c.from.(string)
	if !isField {
		of := reflect.ValueOf(c.from)
		return func(item proto.Message) any { return of.Call([]reflect.Value{reflect.ValueOf(item)})[0].Interface() }
	}
	var fields []protoreflect.FieldDescriptor
	for name := range strings.SplitSeq(path, ".") {
		f := d.Fields().ByName(protoreflect.Name(name))
		if f == nil {
			panic(fmt.Sprintf("cli: %s has no field %s", d.FullName(), name))
		}
		fields, d = append(fields, f), f.Message()
	}
	last := fields[len(fields)-1]
	return func(item proto.Message) any {
		m := item.ProtoReflect()
		for _, f := range fields[:len(fields)-1] {
			m = m.Get(f).Message()
		}
		return fieldValue{last, m}
	}
}

// fieldValue is a field of a message.
type fieldValue struct {
	field protoreflect.FieldDescriptor
	of    protoreflect.Message
}

// cell is one field of a table.
type cell struct {
	text  string
	color color
}

// noText is the text of a cell that has none.
const noText = "-"

// cellOf returns the cell with the value, whose text is safe on a terminal. A cell without a text shows "-".
func (s *session) cellOf(value any) (c cell) {
	switch v := value.(type) {
	case cell:
		c = v
	case string:
		c.text = v
	case int:
		c.text = strconv.Itoa(v)
	case *timestamppb.Timestamp:
		c.text = s.age(v)
	case protoreflect.Enum:
		c = cell{enumName(v), colorOf(v)}
	case fieldValue:
		if !v.field.HasPresence() || v.of.Has(v.field) {
			c.text = strings.TrimSpace(s.valueText(v.field, v.of.Get(v.field)))
			c.color = fieldColor(v.field, c.text)
		}
	}
	if c.text = printable(c.text); c.text == "" {
		c.text = noText
	}
	return c
}

func enumName(e protoreflect.Enum) string {
	if v := e.Descriptor().Values().ByNumber(e.Number()); v != nil {
		return string(v.Name())
	}
	return strconv.Itoa(int(e.Number()))
}

// table is a table for people. Its last column takes the remaining width of the terminal.
type table struct {
	head []string
	rows [][]cell
}

// show prints a table. With -q it prints only the texts of the first column. For an empty table it prints a hint.
func (s *session) show(t *table, none string) {
	switch {
	case s.quiet:
		for _, row := range t.rows {
			s.screen.print(row[0].text + "\n")
		}
	case len(t.rows) == 0:
		s.hint("%s", none)
	default:
		s.screen.print(t.render(s.screen.onOut.width(), s.screen.onOut.colored(s.noColor)))
	}
}

const gap = 2

// wideColumn is the width above which a column makes the columns after it hard to find.
const wideColumn = 30

// lastWidth is the smallest width of the last column.
const lastWidth = 12

// render formats the table for a terminal of the width, in columns. 0 means an unlimited width. With colour the heading
// is bold.
func (t *table) render(width int, color bool) string {
	widths := t.widths()
	last := len(widths) - 1
	if width > 0 {
		rest := width
		for _, w := range widths[:last] {
			rest -= w + gap
		}
		widths[last] = min(widths[last], max(rest, lastWidth))
	}
	head := make([]cell, len(t.head))
	for i, h := range t.head {
		head[i] = cell{h, bold}
	}
	var b strings.Builder
	for _, row := range append([][]cell{head}, t.rows...) {
		for i, c := range row[:last] {
			b.WriteString(paint(color, c.color, c.text) + strings.Repeat(" ", widths[i]+gap-runewidth.StringWidth(c.text)))
		}
		text := row[last].text
		if width > 0 {
			text = truncate(text, widths[last])
		}
		b.WriteString(paint(color, row[last].color, text) + "\n")
	}
	return b.String()
}

// fit moves a wide column to the end, where it can be shortened, and removes columns until the rest fits the width. It
// returns the headings of the removed columns.
func (t *table) fit(width int) (removed []string) {
	if len(t.rows) == 0 || len(t.head) < 2 {
		return nil
	}
	for {
		widths, total := t.widths(), 0
		widest := len(widths) - 1
		for i, w := range widths {
			if i > 0 && w > widths[widest] {
				widest = i
			}
			total += w + gap
		}
		fits := width == 0 || total-gap <= width
		if fits && widths[widest] <= wideColumn {
			return removed
		}
		t.move(widest)
		if fits || len(t.head) <= 2 || total-widths[widest]+lastWidth <= width {
			return removed
		}
		second := len(t.head) - 2
		widths = t.widths()
		for i := 1; i < second; i++ {
			if widths[i] > widths[second] {
				second = i
			}
		}
		removed = append(removed, t.head[second])
		t.drop(second)
	}
}

func (t *table) widths() []int {
	widths := make([]int, len(t.head))
	for i, h := range t.head {
		widths[i] = runewidth.StringWidth(h)
	}
	for _, row := range t.rows {
		for i, c := range row {
			widths[i] = max(widths[i], runewidth.StringWidth(c.text))
		}
	}
	return widths
}

// move moves column i to the end.
func (t *table) move(i int) {
	head := t.head[i]
	t.head = append(slices.Delete(t.head, i, i+1), head)
	for r, row := range t.rows {
		c := row[i]
		t.rows[r] = append(slices.Delete(row, i, i+1), c)
	}
}

// drop removes column i.
func (t *table) drop(i int) {
	t.head = slices.Delete(t.head, i, i+1)
	for r, row := range t.rows {
		t.rows[r] = slices.Delete(row, i, i+1)
	}
}

// dropEmpty removes the columns without any text.
func (t *table) dropEmpty() {
	for i := len(t.head) - 1; i >= 0 && len(t.head) > 1; i-- {
		if len(t.rows) > 0 && !slices.ContainsFunc(t.rows, func(row []cell) bool { return row[i].text != noText }) {
			t.drop(i)
		}
	}
}

// truncate shortens a text to a width in columns.
func truncate(s string, width int) string {
	if runewidth.StringWidth(s) <= width {
		return s
	}
	return runewidth.Truncate(s, width, "…")
}
