"""Ways in from other libraries; a module needs the library that it is named after."""
