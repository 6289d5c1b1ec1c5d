package main

import (
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// uses has the names of the messages that are part of requests, and of the messages that are part of answers.
type uses struct {
	request, answer map[protoreflect.FullName]bool
}

func usesOf(files []*protogen.File) uses {
	u := uses{map[protoreflect.FullName]bool{}, map[protoreflect.FullName]bool{}}
	for _, f := range files {
		for _, s := range f.Services {
			for _, m := range s.Methods {
				add(u.request, m.Input)
				add(u.answer, m.Output)
			}
		}
	}
	return u
}

// add adds a message and the messages in it.
func add(to map[protoreflect.FullName]bool, m *protogen.Message) {
	if to[m.Desc.FullName()] {
		return
	}
	to[m.Desc.FullName()] = true
	for _, f := range m.Fields {
		if f.Message != nil {
			add(to, f.Message)
		}
	}
}
