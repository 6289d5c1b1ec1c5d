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

// column is a column of a table of messages: its heading and the source of its cells. The source may be the name of a field in
// the proto; task.agent_name is the field agent_name of the message in the field task. The source may also be a
// function that takes the message and returns one of the types that cellOf knows. If the source is nil, the table leaves the column out.
type column struct {
	heading string
	source  any
}

// valueIf returns the value if shown is true, and nil otherwise. A table leaves out a column without a source, and a card
// leaves out a line without a value.
func valueIf(shown bool, value any) any {
	if !shown {
		return nil
	}
	return value
}

// printList prints messages as a table with the columns. For an empty list it prints emptyText as a hint. With -q it prints only the texts of
// the first column.
func printList[M proto.Message](s *session, items []M, emptyText string, columns ...column) {
	all := make([]proto.Message, len(items))
	for i, item := range items {
		all[i] = item
	}
	s.printTable(s.tableOf((*new(M)).ProtoReflect().Descriptor(), all, columns), emptyText)
}

// tableOf returns a table of messages. It panics if a column names a field that the messages do not have, which is a bug.
func (s *session) tableOf(d protoreflect.MessageDescriptor, items []proto.Message, columns []column) *table {
	t := &table{rows: make([][]cell, len(items))}
	for _, c := range columns {
		if c.source == nil {
			continue
		}
		value := valueFunc(d, c)
		t.headings = append(t.headings, c.heading)
		for i, item := range items {
			t.rows[i] = append(t.rows[i], s.cellOf(value(item)))
		}
	}
	return t
}

// valueFunc returns a function that maps a message to its value in the column.
func valueFunc(d protoreflect.MessageDescriptor, c column) func(proto.Message) any {
	path, isField := c.source.(string)
	if !isField {
		call := reflect.ValueOf(c.source)
		return func(item proto.Message) any { return call.Call([]reflect.Value{reflect.ValueOf(item)})[0].Interface() }
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

// fieldValue is a field in a message, whose value cellOf reads.
type fieldValue struct {
	field   protoreflect.FieldDescriptor
	message protoreflect.Message
}

// cell is the content of a table in one row and column.
type cell struct {
	text  string
	color color
}

// emptyCellText is shown in a cell that has no text.
const emptyCellText = "-"

// cellOf returns the cell for a value of a type in its switch. A time is shown as its age. The text is safe on a terminal. It is
// emptyCellText if the value has no text.
func (s *session) cellOf(value any) (c cell) {
	switch v := value.(type) {
	case cell:
		c = v
	case string:
		c.text = v
	case int:
		c.text = strconv.Itoa(v)
	case *timestamppb.Timestamp:
		c.text = s.ageText(v)
	case protoreflect.Enum:
		c = cell{enumName(v), colorOf(v)}
	case fieldValue:
		if !v.field.HasPresence() || v.message.Has(v.field) {
			c.text = strings.TrimSpace(s.valueText(v.field, v.message.Get(v.field)))
			c.color = fieldColor(v.field, c.text)
		}
	}
	if c.text = printable(c.text); c.text == "" {
		c.text = emptyCellText
	}
	return c
}

// enumName returns the name of the enum's value, or its number if this program does not know the value.
func enumName(e protoreflect.Enum) string {
	if v := e.Descriptor().Values().ByNumber(e.Number()); v != nil {
		return string(v.Name())
	}
	return strconv.Itoa(int(e.Number()))
}

// enumWords returns the name of the enum's value in words.
func enumWords(e protoreflect.Enum) string { return strings.ReplaceAll(enumName(e), "_", " ") }

// table is a table for people. Its last column takes the remaining width of the terminal.
type table struct {
	headings          []string
	rows              [][]cell
	importantHeadings []string // of the columns that fit removes last
}

// printTable prints a table. For a table without rows it prints emptyText as a hint. With -q it prints only the texts of the first column.
func (s *session) printTable(t *table, emptyText string) {
	switch {
	case s.quiet:
		for _, row := range t.rows {
			s.screen.print(row[0].text + "\n")
		}
	case len(t.rows) == 0:
		s.hint("%s", emptyText)
	default:
		width := s.screen.outTerminal.width()
		if s.output == wideFormat { // its texts are whole
			width = 0
		}
		s.screen.print(t.render(width, s.screen.outTerminal.hasColors(s.noColor)))
	}
}

// columnGap is the number of spaces between columns.
const columnGap = 2

// wideColumnWidth is the width above which a column makes the columns after it hard to find.
const wideColumnWidth = 30

// minLastWidth is the smallest width of the last column.
const minLastWidth = 12

// render returns the table as text. To fit the width of a terminal, it shortens the texts of the last column, but to no less than
// minLastWidth. Width 0 means no limit. If colored is set, render uses colours and a bold heading.
func (t *table) render(width int, colored bool) string {
	widths := t.widths()
	last := len(widths) - 1
	if width > 0 {
		rest := width
		for _, w := range widths[:last] {
			rest -= w + columnGap
		}
		widths[last] = min(widths[last], max(rest, minLastWidth))
	}
	head := make([]cell, len(t.headings))
	for i, h := range t.headings {
		head[i] = cell{h, bold}
	}
	var b strings.Builder
	for _, row := range append([][]cell{head}, t.rows...) {
		for i, c := range row[:last] {
			b.WriteString(paint(colored, c.color, c.text) + strings.Repeat(" ", widths[i]+columnGap-runewidth.StringWidth(c.text)))
		}
		text := row[last].text
		if width > 0 {
			text = truncate(text, widths[last])
		}
		b.WriteString(paint(colored, row[last].color, text) + "\n")
	}
	return b.String()
}

// fit moves a wide column to the end, where render can shorten it, and removes columns until the others fit the width; 0 means an unlimited
// width. It returns the headings of the removed columns. It never removes the first column, and removes important columns only when no others
// are left.
func (t *table) fit(width int) (removed []string) {
	if len(t.rows) == 0 || len(t.headings) < 2 {
		return nil
	}
	for {
		widths, total := t.widths(), 0
		widest := len(widths) - 1
		for i, w := range widths {
			if i > 0 && w > widths[widest] {
				widest = i
			}
			total += w + columnGap
		}
		for i, w := range widths {
			if t.isImportant(i) && w > wideColumnWidth {
				widest = i
			}
		}
		fits := width == 0 || total-columnGap <= width
		if fits && widths[widest] <= wideColumnWidth {
			return removed
		}
		t.moveToEnd(widest)
		if fits || len(t.headings) <= 2 || total-columnGap-widths[widest]+minLastWidth <= width {
			return removed
		}
		i := t.columnToRemove()
		removed = append(removed, t.headings[i])
		t.removeColumn(i)
	}
}

// columnToRemove returns the column to remove next. It chooses the widest column between the first and the last that is not
// important. If there is none, it chooses the last column unless that is important, or else the widest column between the first and
// the last.
func (t *table) columnToRemove() int {
	widths, last, found := t.widths(), len(t.headings)-1, 0
	for _, includeImportant := range []bool{false, true} {
		for i := 1; i < last; i++ {
			if (includeImportant || !t.isImportant(i)) && (found == 0 || widths[i] >= widths[found]) {
				found = i
			}
		}
		switch {
		case found > 0:
			return found
		case !t.isImportant(last):
			return last
		}
	}
	return last
}

// isImportant reports whether fit removes column i only when no others are left.
func (t *table) isImportant(i int) bool { return slices.Contains(t.importantHeadings, t.headings[i]) }

func (t *table) widths() []int {
	widths := make([]int, len(t.headings))
	for i, h := range t.headings {
		widths[i] = runewidth.StringWidth(h)
	}
	for _, row := range t.rows {
		for i, c := range row {
			widths[i] = max(widths[i], runewidth.StringWidth(c.text))
		}
	}
	return widths
}

func (t *table) moveToEnd(i int) {
	head := t.headings[i]
	t.headings = append(slices.Delete(t.headings, i, i+1), head)
	for r, row := range t.rows {
		c := row[i]
		t.rows[r] = append(slices.Delete(row, i, i+1), c)
	}
}

func (t *table) removeColumn(i int) {
	t.headings = slices.Delete(t.headings, i, i+1)
	for r, row := range t.rows {
		t.rows[r] = slices.Delete(row, i, i+1)
	}
}

// removeEmptyColumns removes the columns without any text.
func (t *table) removeEmptyColumns() {
	for i := len(t.headings) - 1; i >= 0 && len(t.headings) > 1; i-- {
		if len(t.rows) > 0 && !slices.ContainsFunc(t.rows, func(row []cell) bool { return row[i].text != emptyCellText }) {
			t.removeColumn(i)
		}
	}
}

// truncate shortens a text to at most width columns of a terminal. A shortened text ends with an ellipsis.
func truncate(s string, width int) string {
	if runewidth.StringWidth(s) <= width {
		return s
	}
	return runewidth.Truncate(s, width, "…")
}
