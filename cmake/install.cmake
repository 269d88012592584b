# filled by install rules
