import '../styles/tokens.css';
import '../styles/base.css';
import { mount } from 'svelte';
import Live from './Live.svelte';

const target = document.getElementById('app');
target?.replaceChildren();
if (target) mount(Live, { target });
